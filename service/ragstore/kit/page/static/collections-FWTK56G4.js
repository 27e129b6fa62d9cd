import{h as a}from"./chunk-7CV44HRB.js";import"./chunk-NIV2TCK4.js";export{a as default};
